"""HTTP for clients that are not authenticated yet: ``server`` runs WSGI applications, ``listener`` limits connections."""
