"""Every search setting has its scope."""

from weft.recipe.choices import STRATEGIES
from weft.recipe.search import SCOPES, SearchSettings, irrelevant_settings


def test_scopes_name_strategies_and_settings():
    assert set(SCOPES) <= set(STRATEGIES)
    assert set().union(*SCOPES.values()) <= set(SearchSettings.model_fields)


def test_settings_of_other_searches_are_irrelevant():
    assert {"temperature", "max_nodes"} <= irrelevant_settings("beam") and "size" not in irrelevant_settings("beam")
    assert "temperature" not in irrelevant_settings("mbr") and "length_penalty" not in irrelevant_settings("greedy")
