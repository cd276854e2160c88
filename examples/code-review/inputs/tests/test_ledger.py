import unittest

from src.ledger import parse, total


class Ledger(unittest.TestCase):
    def test_parse(self):
        self.assertEqual(parse("apple;2;30\n"), ("apple", 2, 30))

    def test_total(self):
        self.assertEqual(total(["apple;2;30", "pear;1;40"]), 100)
