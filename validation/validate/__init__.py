"""The modules of validate.py. They share nothing with the program except the record, the names and units of its fields
(reference/words.jsonl) and the published formulas."""
