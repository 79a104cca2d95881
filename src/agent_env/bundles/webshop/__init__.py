"""WebShop: find a product by searching and clicking, choose its options, buy it (Yao et al., 2022)."""
