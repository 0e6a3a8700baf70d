"""The basis of the policy rules of the API: personas and base rules. The rules are in the modules of the resources."""
