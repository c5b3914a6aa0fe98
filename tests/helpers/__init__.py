"""What tests share: small data, commands as a person runs them, learners of three numbers."""
