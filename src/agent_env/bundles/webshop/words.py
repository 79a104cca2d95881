"""What the generated catalogue is made of: 40 kinds of products, their attributes and options."""

from __future__ import annotations

from typing import NamedTuple

ATTRIBUTES = {
    "device": "noise cancelling, fast charging, water resistant, hands free, long lasting, plug and play, "
    "high speed, easy to install, dust proof, shock absorbing, energy efficient, heavy duty",
    "home": "easy to clean, space saving, eco friendly, easy to assemble, hand crafted, scratch resistant, heavy duty, "
    "fade resistant, non slip, stackable, wall mounted, foldable",
    "kitchen": "dishwasher safe, bpa free, stainless steel, non stick, heat resistant, microwave safe, leak proof, "
    "easy to clean, lead free, rust proof, hand crafted, stackable",
    "textile": "machine washable, super soft, fade resistant, wrinkle free, quick drying, hypoallergenic, "
    "double sided, light blocking, eco friendly, pet friendly, hand woven, stain resistant",
    "garment": "machine wash, long sleeve, short sleeve, slim fit, relaxed fit, moisture wicking, quick drying, "
    "elastic waist, button closure, tumble dry, wrinkle free, uv protection",
    "footwear": "rubber sole, memory foam, arch support, water resistant, ankle strap, steel toe, slip resistant, "
    "faux fur lined, lace up, ultra light, breathable mesh, wide fit",
    "bag": "water resistant, zipper closure, anti theft, adjustable strap, laptop compartment, genuine leather, "
    "carry on, rfid blocking, quick access, tear resistant, hand stitched, double stitched",
    "care": "cruelty free, fragrance free, paraben free, sulfate free, anti aging, oil free, long lasting, dry skin, "
    "sensitive skin, plant based, alcohol free, clinically proven",
    "food": "gluten free, sugar free, low calorie, non gmo, dairy free, high protein, individually wrapped, "
    "caffeine free, fat free, kosher certified, keto friendly, artificially unflavoured",
}
"""Attributes by what they suit."""

OPTIONS = {
    "color": "black, white, grey, red, blue, green, pink, purple, orange, yellow, brown, beige, navy, teal, ivory, "
    "gold, silver",
    "size": "x-small, small, medium, large, x-large, xx-large",
    "shoe size": "5, 6, 7, 8, 9, 10, 11, 12",
    "bed size": "twin, full, queen, king, california king",
    "length": "3 feet, 6 feet, 10 feet, 15 feet, 25 feet",
    "dimensions": "2 x 3 ft, 3 x 5 ft, 4 x 6 ft, 5 x 8 ft, 8 x 10 ft",
    "capacity": "8 oz, 12 oz, 16 oz, 20 oz, 32 oz",
    "scent": "lavender fields, citrus grove, vanilla bean, eucalyptus, coconut, unscented",
    "flavor": "peanut butter, sea salt, dark cocoa, maple, raspberry, cinnamon",
    "pack": "pack of 1, pack of 2, pack of 4, pack of 6, pack of 12",
    "material": "bamboo, walnut wood, marble, steel, acrylic, ceramic",
    "style": "modern, rustic, classic, minimalist, vintage",
}
"""Values by the option's name."""


class Kind(NamedTuple):
    """A category: its path, what it is searched by, which attributes and options suit it, prices in dollars."""

    path: str
    noun: str
    attributes: str
    options: tuple[str, ...]
    low: float
    high: float


KINDS = (
    Kind("Electronics › Headphones › Over-Ear", "headphones", "device", ("color",), 15, 180),
    Kind("Electronics › Portable Audio › Speakers", "bluetooth speaker", "device", ("color", "style"), 18, 150),
    Kind("Electronics › Tablets › Covers", "tablet case", "device", ("color",), 8, 45),
    Kind("Electronics › Mobile Power › Chargers", "phone charger", "device", ("length",), 7, 40),
    Kind("Electronics › Gaming › Mice", "mouse", "device", ("color",), 12, 90),
    Kind("Electronics › Input › Keyboards", "keyboard", "device", ("color", "style"), 20, 160),
    Kind("Electronics › Video › Cables", "hdmi cord", "device", ("length", "pack"), 6, 35),
    Kind("Electronics › Security › Cameras", "webcam", "device", ("style",), 25, 200),
    Kind("Home & Kitchen › Lighting › Table Lamps", "lamp", "home", ("color", "style"), 20, 140),
    Kind("Home & Kitchen › Storage › Baskets", "basket", "home", ("color", "size"), 10, 50),
    Kind("Home & Kitchen › Decor › Clocks", "wall clock", "home", ("material", "style"), 14, 95),
    Kind("Home & Kitchen › Furniture › Office Chairs", "office chair", "home", ("color", "style"), 80, 420),
    Kind("Home & Kitchen › Furniture › Bookcases", "bookshelf", "home", ("material", "color"), 60, 380),
    Kind("Home & Kitchen › Decor › Mirrors", "mirror", "home", ("style", "material"), 25, 240),
    Kind("Home & Kitchen › Dining › Mugs", "mug", "kitchen", ("color", "capacity"), 8, 35),
    Kind("Home & Kitchen › Food Prep › Cutting Boards", "cutting board", "kitchen", ("material", "size"), 12, 70),
    Kind("Home & Kitchen › Cookware › Frying Pans", "skillet", "kitchen", ("size", "material"), 18, 110),
    Kind("Home & Kitchen › Dining › Water Bottles", "bottle", "kitchen", ("color", "capacity"), 9, 45),
    Kind("Home & Kitchen › Food Prep › Kettles", "kettle", "kitchen", ("color", "style"), 22, 120),
    Kind("Home & Kitchen › Bedding › Throw Pillows", "pillow", "textile", ("color", "pack"), 9, 60),
    Kind("Home & Kitchen › Bath › Towels", "towel", "textile", ("color", "pack"), 8, 65),
    Kind("Home & Kitchen › Bedding › Sheets", "sheet set", "textile", ("color", "bed size"), 20, 120),
    Kind("Home & Kitchen › Windows › Curtains", "curtains", "textile", ("color", "style"), 16, 90),
    Kind("Home & Kitchen › Floors › Area Rugs", "rug", "textile", ("color", "dimensions"), 25, 260),
    Kind("Clothing › Women › Dresses", "dress", "garment", ("color", "size"), 18, 120),
    Kind("Clothing › Men › Polos", "polo shirt", "garment", ("color", "size"), 14, 70),
    Kind("Clothing › Men › Hoodies", "hoodie", "garment", ("color", "size"), 20, 85),
    Kind("Clothing › Women › Jeans", "jeans", "garment", ("color", "size"), 22, 110),
    Kind("Clothing › Women › Coats", "coat", "garment", ("color", "size"), 45, 280),
    Kind("Clothing › Men › Sleepwear", "pajamas", "garment", ("color", "size"), 16, 75),
    Kind("Shoes › Men › Running", "sneakers", "footwear", ("color", "shoe size"), 30, 160),
    Kind("Shoes › Women › Sandals", "sandals", "footwear", ("color", "shoe size"), 18, 95),
    Kind("Shoes › Men › Boots", "boots", "footwear", ("color", "shoe size"), 45, 220),
    Kind("Luggage › School › Backpacks", "backpack", "bag", ("color", "style"), 20, 130),
    Kind("Luggage › Accessories › Wallets", "wallet", "bag", ("color",), 10, 80),
    Kind("Beauty › Hair › Shampoos", "shampoo", "care", ("scent", "capacity"), 7, 40),
    Kind("Beauty › Skin › Moisturizers", "face cream", "care", ("scent", "capacity"), 9, 75),
    Kind("Beauty › Lips › Balms", "lip balm", "care", ("scent", "pack"), 4, 22),
    Kind("Grocery › Snacks › Bars", "granola bars", "food", ("flavor", "pack"), 6, 40),
    Kind("Grocery › Beverages › Tea", "herbal tea", "food", ("flavor", "pack"), 5, 32),
)

SERIES = ["Alto", "Brisa", "Corvo", "Delva", "Esker", "Fenno", "Galen", "Hesper", "Ilium", "Jovan"]
SYLLABLES = ["va", "lo", "mi", "ren", "tos", "kel", "da", "ber", "nu", "zan", "pi", "sor", "ga", "hul"]
ASKING = ("find me", "i am looking for", "i need", "i want to buy", "show me")
PRAISE = ("Good value", "As described", "Would buy again", "Better than expected")
BLAME = ("Not for me", "Smaller than it looks", "Came late")
