"""The modules of validate.py. They share nothing with the program except the record and the published formulas."""
