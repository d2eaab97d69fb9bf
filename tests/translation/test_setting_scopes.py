"""Every search setting has its scope."""

from weft.recipe import SearchSettings
from weft.translation.setting_scopes import SCOPES, irrelevant_settings
from weft.translation.strategies import STRATEGIES


def test_scopes_name_strategies_and_settings():
    assert set(SCOPES) <= set(STRATEGIES)
    assert set().union(*SCOPES.values()) <= set(SearchSettings.model_fields)


def test_settings_of_other_searches_are_irrelevant():
    assert {"temperature", "max_nodes"} <= irrelevant_settings("beam") and "size" not in irrelevant_settings("beam")
    assert "temperature" not in irrelevant_settings("mbr") and "length_penalty" not in irrelevant_settings("greedy")
