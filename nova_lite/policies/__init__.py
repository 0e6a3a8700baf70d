"""What the policy rules of the API are made of: personas and base rules. The rules stand in the modules of its resources."""
