"""What calls cost: usage by class, prices, charges, reservations and estimates; pure, exact, in nano-USD."""

from monoize.money.book import PriceBook, Priced
from monoize.money.charge import MOST_NANO, Charge, Item, charge
from monoize.money.classes import CLASSES, MOST_TOKENS, TokenClass, credible, split
from monoize.money.estimate import input_bound, output_bound, produced, reserved
from monoize.money.meter import Meter, Metered, metered
from monoize.money.rates import FREE, Rates, Tier, parse_rates, rates_form

__all__ = [
    "CLASSES",
    "FREE",
    "MOST_NANO",
    "MOST_TOKENS",
    "Charge",
    "Item",
    "Meter",
    "Metered",
    "PriceBook",
    "Priced",
    "Rates",
    "Tier",
    "TokenClass",
    "charge",
    "credible",
    "input_bound",
    "metered",
    "output_bound",
    "parse_rates",
    "produced",
    "rates_form",
    "reserved",
    "split",
]
