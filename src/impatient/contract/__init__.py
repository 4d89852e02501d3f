"""The laws of server rules and of availability processes, and what they are tried on."""
