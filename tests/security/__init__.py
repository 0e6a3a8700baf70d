"""What an attacker tried: a tenant, a guest, somebody without a token, a compute host."""
