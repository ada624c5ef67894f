"""The parts of the page that validation/page.py writes."""
