"""What the program remembers: users, keys, providers, money, the log."""
