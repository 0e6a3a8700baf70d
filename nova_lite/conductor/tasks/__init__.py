"""The conductor's part of operations that need the scheduler."""
