"""Files written whole or not at all, folders held by one process, JSON with a checksum."""
