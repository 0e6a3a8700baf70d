"""The part of the APIs of Identity, Image, Network and Block Storage that clients of an embedded cloud need."""
