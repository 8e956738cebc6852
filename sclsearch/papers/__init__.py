"""The papers' tables: what they print, under which conditions, and by which of the methods here."""
