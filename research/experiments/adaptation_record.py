"""Write the record of an adaptation study: a page with its table and plot, and every figure as JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

from cloze import artifacts, file_io
from experiments.adaptation import OUTCOME, TASK_DOMAIN, Adaptation, AdaptationRun
from experiments.differences import paired_difference
from experiments.markdown_tables import markdown_table
from experiments.plots import Plot, as_svg, new_figure, styled
from experiments.results import describe_machine, read_environment

_LOSS = "masked_lm_loss"


def write_adaptation_record(study: Adaptation) -> Path:
    """Write the record of the finished runs; an existing one is replaced."""
    record = study.output / "record"
    results = _read_results(study)
    if not results["runs"]:
        return record
    groups = _group(results["runs"])
    plot = _plot(groups, results["control"])
    lines = [
        "# Adapting an encoder to a domain",
        "",
        markdown_table(_COLUMNS, [_row(group, results) for group in groups]),
        "",
        *_explain(results),
        "",
        *plot.lines,
        f"{describe_machine(read_environment(study.output / 'runs') or {})}.",
        "`results.json` has every figure by seed, `settings.json` the settings of the study.",
    ]
    with artifacts.write_directory(record, kind="record", overwrite=True) as temporary:
        (temporary / "README.md").write_text("\n".join(lines) + "\n", "utf-8")
        (temporary / plot.file).write_text(plot.svg, "utf-8")
        (temporary / "results.json").write_text(json.dumps(results, indent=1) + "\n", "utf-8")
        (temporary / "settings.json").write_text(json.dumps(asdict(study.config), indent=1) + "\n", "utf-8")
    return record


_COLUMNS = (
    "domain",
    "text, MB",
    "seeds",
    "documents",
    "steps",
    "loss on the domain",
    "change",
    "loss on the old text",
    "change",
    "authors named, %",
    "change",
)


def _read_results(study: Adaptation) -> dict[str, Any]:
    """Return the outcomes of the control encoder and of the finished runs, with their task."""
    control_directory = study.output / "control"
    control = (
        file_io.read_json(control_directory / OUTCOME) if (control_directory / OUTCOME).exists() else None
    )
    tasks = {
        str(seed): file_io.read_json(file)
        for seed in study.config.seeds
        if (file := control_directory / f"task-{seed}" / OUTCOME).exists()
    }
    runs = []
    for megabytes in study.config.megabytes:
        for domain in study.domains:
            for seed in study.config.seeds:
                directory = study.directory(AdaptationRun(domain, megabytes, seed))
                if (directory / OUTCOME).exists():
                    outcome = file_io.read_json(directory / OUTCOME)
                    task = directory / "task" / OUTCOME
                    runs.append({**outcome, **({"task": file_io.read_json(task)} if task.exists() else {})})
    return {"control": control, "control_tasks": tasks, "runs": sorted(runs, key=lambda run: run["domain"])}


def _group(runs: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return the runs of each domain and size."""
    groups: dict[tuple[str, float], list[dict[str, Any]]] = {}
    for run in runs:
        groups.setdefault((run["domain"], run["megabytes"]), []).append(run)
    return list(groups.values())


def _row(group: Sequence[dict[str, Any]], results: dict[str, Any]) -> list[str]:
    domain, control = group[0]["domain"], results["control"]
    cells = [
        domain,
        f"{group[0]['megabytes']:g}",
        str(len(group)),
        f"{fmean(run['documents'] for run in group):,.0f}",
        f"{fmean(run['steps'] for run in group):,.0f}",
    ]
    for kind, before in (("domain_metrics", control["domains"][domain]), ("old_metrics", control["old"])):
        after = [run[kind][_LOSS] for run in group]
        difference = paired_difference(after, [before[_LOSS]] * len(after))
        cells += [f"{fmean(after):.3f}", difference.format(3)]
    scored = [run for run in group if "task" in run and str(run["seed"]) in results["control_tasks"]]
    if not scored:
        return [*cells, "-", "-"]
    after = [100 * run["task"]["accuracy"] for run in scored]
    before_task = [100 * results["control_tasks"][str(run["seed"])]["accuracy"] for run in scored]
    return [*cells, f"{fmean(after):.1f}", paired_difference(after, before_task).format(1)]


def _explain(results: dict[str, Any]) -> list[str]:
    control, tasks = results["control"], results["control_tasks"]
    losses = ", ".join(f"{name} {metrics[_LOSS]:.3f}" for name, metrics in control["domains"].items())
    lines = [
        f"Before: {losses}, old text {control['old'][_LOSS]:.3f} nats per masked token"
        f" (from word frequencies: old text {control['old']['masked_lm_unigram_loss']:.3f}).",
        "Losses are in nats per masked token, on the same held-out documents for all runs, of the best checkpoint",
        "by the held-out part of its own sample. Changes are to the control encoder: the mean over seeds with its",
        "95% interval (Student's t); without an interval they are of one seed.",
    ]
    if tasks:
        accuracies = [100 * scores["accuracy"] for scores in tasks.values()]
        majority = 100 * next(iter(tasks.values()))["majority_accuracy"]
        lines += [
            f"Authors ({TASK_DOMAIN}): the control encoder names {fmean(accuracies):.1f}% of the passages of another",
            f"novel of six authors ({', '.join(f'{value:.1f}' for value in accuracies)}); the most frequent author is",
            f"right for {majority:.1f}%. The epoch was chosen by passages of the training novels.",
        ]
    return lines


@styled()
def _plot(groups: Sequence[Sequence[dict[str, Any]]], control: dict[str, Any]) -> Plot:
    """Plot the changes of both losses over the size of the sample, with their intervals."""
    figure = new_figure(9.4, 3.6)
    domains = list(dict.fromkeys(group[0]["domain"] for group in groups))
    for number, (kind, title) in enumerate(
        (("domain_metrics", "held-out text of the domain"), ("old_metrics", "held-out old text")), 1
    ):
        axes = figure.add_subplot(1, 2, number)
        axes.axhline(0, color="black", linewidth=0.8)
        for place, domain in enumerate(domains):
            before = control["domains"][domain] if kind == "domain_metrics" else control["old"]
            of_domain = [group for group in groups if group[0]["domain"] == domain]
            differences = [
                paired_difference([run[kind][_LOSS] for run in group], [before[_LOSS]] * len(group))
                for group in of_domain
            ]
            sizes = [group[0]["megabytes"] for group in of_domain]
            means = [difference.mean for difference in differences]
            errors = [
                [difference.mean - difference.low for difference in differences],
                [difference.high - difference.mean for difference in differences],
            ]
            axes.errorbar(sizes, means, errors, fmt=f"C{place}-o", capsize=3.0, label=domain)
        axes.set_xscale("log")
        axes.set_xticks(sorted({group[0]["megabytes"] for group in groups}))
        axes.minorticks_off()
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_title(title, fontsize="medium")
        axes.set_xlabel("text of the domain, MB")
        axes.grid(axis="y", linewidth=0.4)
        axes.legend(frameon=False)
    figure.axes[0].set_ylabel("change of the masked-word loss, nats")
    caption = "Change of the masked-word loss over the amount of text, with 95% intervals"
    return Plot("changes.svg", caption, as_svg(figure))
