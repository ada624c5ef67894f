"""What validate.py is made of. It shares nothing with the program but the record and the published formulas."""
