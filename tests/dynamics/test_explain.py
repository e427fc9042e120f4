"""kinetree.explain says what auto does."""

import kinetree as kt
from kinetree.dynamics.forward_dynamics import choose_method
from kinetree.dynamics.schedule import choose_schedule


def test_explains_what_auto_takes():
    for model, batch in (
        (kt.auto_tree(7), 1),
        (kt.auto_tree(7), 4096),
        (kt.auto_tree(5000), 1),
        (kt.auto_tree(5000, 2), 1),
    ):
        said = kt.explain(model, batch)
        assert (said.forward_dynamics.method, said.forward_dynamics.schedule) == choose_method(model, batch)
        assert said.inverse_dynamics.schedule == choose_schedule(model.tree, batch)
        text = str(said)
        assert f"{model.n_bodies} bodies" in text
        assert said.forward_dynamics.reason in text
