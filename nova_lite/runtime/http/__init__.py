"""HTTP for clients that nobody knows yet: ``server`` runs WSGI applications, ``listener`` limits connections."""
