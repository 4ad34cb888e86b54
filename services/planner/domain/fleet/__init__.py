"""The instances of the fleet: who is placed where, operators' orders, moves, health, and what agents keep. Pure."""
