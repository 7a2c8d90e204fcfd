"""Runs to draw, and the texts and sizes of figures."""

from toy import Walk

from mfbo_torch.loop.runner import run


def history(problem, capital=60.0, strategy=None):
    return run(problem, strategy or Walk(), capital, progress=False)


def texts(axes):
    found = [text.get_text() for text in axes.texts]
    return found + [text.get_text() for text in axes.get_legend().get_texts()] if axes.get_legend() else found


def saved(figure, tmp_path):
    figure.savefig(tmp_path / "a.png")
    return (tmp_path / "a.png").stat().st_size
