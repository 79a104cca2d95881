"""Reciprocal rank fusion, worked out by hand."""

from agent_env.bundles.search.hybrid import fused


def test_what_both_rankings_have_comes_first():
    # 7: 1/61 + 1/63, 9: 1/62 + 1/61, 5: 1/62, 3: 1/63
    assert fused([[7, 5, 3], [9, 9000, 7]]) == [7, 9, 5, 9000, 3]
    assert fused([[7, 9], [9, 7]]) == [7, 9]
    assert fused([[], [4]]) == [4]
    assert fused([[], []]) == []
