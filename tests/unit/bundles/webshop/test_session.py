"""The original's walk through every kind of page, and what it does not show."""

import pytest

from agent_env.bundles.webshop.product import Review
from agent_env.bundles.webshop.session import Session, Shop, document
from support.webshop_shop import GOLDEN, sixty_products, walk_goal

SHOP = sixty_products()


def session(*actions):
    customer = Session(SHOP, walk_goal())
    for action in actions:
        assert customer.act(action), action
    return customer


def test_the_originals_walk():
    customer = Session(SHOP, walk_goal())
    for step in GOLDEN["walk"]:
        if step["action"] is not None:
            assert customer.act(step["action"]) == (step["action"] != "click[not there]")
            assert (0.0 if customer.bought is None else customer.bought.reward) == step["reward"]
            assert (customer.bought is not None) == step["done"]
        assert str(customer.page) == step["observation"]
        if step["available"] is not None:
            assert customer.page.searches == step["available"]["has_search_bar"]
            assert [*customer.page.clickables] == step["available"]["clickables"]
    assert customer.bought is not None


@pytest.mark.parametrize("action", ["click[search]", "click[buy now]", "search[]", "search", "find[lamp]", "click[red"])
def test_what_the_first_page_does_not_offer_changes_nothing(action):
    customer = session()
    assert not customer.act(action)
    assert str(customer.page) == str(session().page)


def test_options_last_until_the_results_are_seen_again():
    opened = session("search[zeta headphones]", "click[b000000026]", "click[red]", "click[blue]", "click[small]")
    assert opened.options == {"color": "blue", "size": "small"}
    opened.act("click[reviews]")
    assert str(opened.page).endswith("Back to Search [SEP] < Prev [SEP] No reviews found")
    opened.act("click[< prev]")
    assert opened.options == {"color": "blue", "size": "small"}
    opened.act("click[< prev]")
    assert (opened.page.kind, opened.number, opened.options) == ("results", 1, {})


def test_pages_go_on_after_the_last_result():
    customer = session("search[zeta headphones model 26]", *["click[next >]"] * 5)
    assert str(customer.page).endswith("Page 6 (Total results: 50) [SEP] < Prev [SEP] Next >")
    assert customer.act("click[< prev]")
    assert len(customer.page.clickables) == 3 + 10


def test_the_way_back_from_a_product_leads_to_its_page_of_the_results():
    customer = session("search[zeta headphones model 26]", "click[next >]", "click[b000000059]", "click[< prev]")
    assert "Page 2 (Total results: 50)" in customer.page.texts


def test_after_the_purchase_nothing_is_done():
    customer = session("search[zeta headphones]", "click[b000000026]", "click[buy now]")
    assert customer.bought is not None
    assert not customer.act("search[lamp]")
    assert customer.page.kind == "done"


def changed(**changes):
    """A shop with one product."""
    product = SHOP.products["B000000026"]
    fields = {name: getattr(product, name) for name in product.__struct_fields__}
    return Shop((type(product)(**{**fields, **changes}),), SHOP.nouns)


def test_reviews():
    shop = changed(reviews=(Review("Loud", 4, "Very."), Review("Red", 1, "")))
    customer = Session(shop, walk_goal())
    for action in ("search[zeta]", "click[b000000026]", "click[reviews]"):
        customer.act(action)
    assert str(customer.page).endswith('< Prev [SEP] "Loud" [SEP] 4 [SEP] Very. [SEP] "Red" [SEP] 1')


def test_a_value_that_two_options_have_is_the_last_ones():
    customer = Session(changed(options={"Color": ("red",), "Band": ("red", "blue")}), walk_goal())
    for action in ("search[zeta]", "click[b000000026]", "click[red]"):
        customer.act(action)
    assert customer.options == {"band": "red"}
    assert [*customer.page.clickables[-2:]] == ["red", "blue"]


def test_a_product_is_found_by_its_name_description_first_bullet_and_options():
    assert document(SHOP.products["B000000026"]) == (
        "zeta headphones model 26 a nice headphones. durable headphones "
        "color: red, blue, black, white, and size: small, medium, large"
    )
