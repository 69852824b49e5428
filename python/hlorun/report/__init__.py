"""Facts about modules, gathered for people and programs; nothing here prints."""
