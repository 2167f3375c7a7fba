"""The model of scale: its laws, where its constants come from, and that it says its errors."""

import math
from dataclasses import replace

import pytest
from benchmarks import scale, scale_page
from benchmarks.children import FailedError
from benchmarks.constants import Constants, constants
from benchmarks.results import Result, keep
from benchmarks.scale import Load, Site

MADE_UP = Constants(
    record_cpu_seconds=4e-6,
    broker_cpu_seconds=0.0,
    record_bytes=300.0,
    written_bytes=30.0,
    local_cores=2,
    epoch_seconds=0.1,
    cluster_epoch_seconds=0.3,
    table_seconds=0.02,
    commit_seconds=0.03,
    commit_file_seconds=1e-4,
    commit_partition_seconds=1e-5,
    answers=7.0,
    commit_bytes=10_000.0,
    commit_file_bytes=500.0,
    commit_partition_bytes=100.0,
    partition_beyond_bytes=20.0,
    ranges_partitions=300.0,
    ledger_partition_bytes=20.0,
    requests=8.0,
    puts=4.0,
)
TINY_MS = 1e3 * (0.1 + 8 * 4e-6 / 2 + 0.03 + 2 * 1e-4 + 4 * 1e-5)
"""An epoch of eight records and its commit, by the laws."""
CIRCUMSTANCES = {
    "commit": "c",
    "changed": False,
    "date": "d",
    "machine": {"cores": 2, "cpu": "x", "memory_gib": 1, "system": "s"},
    "versions": {},
}


def parts(load=None, site=None):
    return scale.parts(MADE_UP, load or Load(), site or Site())


# Laws.


def test_twice_the_records_take_twice_the_time_and_twice_the_cores_half_of_it():
    once = parts()["records"]

    assert 2 * once == pytest.approx(parts(Load(rate=10_000.0))["records"])
    assert once / 2 == pytest.approx(parts(site=Site(cores=4))["records"])


def test_planning_depends_on_where_it_is_done_and_not_on_the_load():
    assert {0.1} == {parts(Load().of_records(k))["planning"] for k in (1, 10, 1000)}
    assert 0.3 == parts(site=Site(cores=3))["planning"]


def test_tables_wait_for_answers_together_as_many_as_there_are_threads():
    waited = {n: parts(Load(tables=n))["answers"] for n in (1, 8, 9)}

    assert waited[1] == waited[8] == pytest.approx(7 * 0.05)
    assert 2 * waited[1] == pytest.approx(waited[9])


def test_a_ledger_weighs_by_partitions_in_each_table():
    assert 1e-5 * 400 * 3 == pytest.approx(parts(Load(partitions=400, tables=3))["ledger"])


def test_ranges_of_too_many_partitions_are_left_out_of_the_metadata():
    assert [30_000.0, 6020.0] == [
        scale.partitions_bytes(MADE_UP, Load(partitions=count)) for count in (300, 301)
    ]


@pytest.mark.parametrize("rate", [1.0, 5000.0, 5e5, 5e6])
def test_the_cores_it_takes_are_enough_and_one_less_is_not(rate):
    load = Load(rate=rate)
    cores = scale.cores_needed(MADE_UP, load, Site())
    work = {
        n: scale.predicted(MADE_UP, load, Site(cores=n)).work_seconds
        for n in (cores, cores - 1)
        if n
    }

    assert work[cores] <= 1.0 + 1e-9
    assert all(work[n] > 1.0 for n in work if n != cores)


def test_no_number_of_cores_makes_up_for_planning_that_takes_longer_than_an_epoch():
    assert scale.cores_needed(MADE_UP, Load(), Site(every_seconds=0.1)) is None


@pytest.mark.parametrize("tables", [1, 10, 1000])
def test_with_the_time_between_epochs_it_takes_a_pipeline_keeps_up(tables):
    load = Load(rate=100_000.0, tables=tables)
    every = scale.every_needed(MADE_UP, load, Site())

    assert scale.predicted(MADE_UP, load, Site(every_seconds=every * 1.001)).keeps_up
    assert not scale.predicted(MADE_UP, load, Site(every_seconds=every * 0.9)).keeps_up


def test_no_time_between_epochs_is_enough_for_more_records_than_the_cores_can_read():
    assert scale.every_needed(MADE_UP, Load(rate=500_001.0), Site()) is None


@pytest.mark.parametrize(
    ("load", "name"),
    [
        (Load(rate=1e6), "records"),
        (Load(tables=1000), "answers"),
        (Load(partitions=200_000), "ledger"),
        (Load(rate=1.0), "answers"),
    ],
)
def test_the_first_bottleneck_is_what_takes_most_of_what_takes_longest(load, name):
    assert name == scale.predicted(MADE_UP, load, Site()).bottleneck


def test_commits_compute_one_at_a_time_while_the_others_wait():
    near, far = (
        scale.predicted(MADE_UP, Load(tables=800), Site(answer_seconds=late)) for late in (0.0, 1.0)
    )
    computing = sum(near.parts[name] for name in scale.COMPUTING)

    assert ("tables", computing) == (near.bottleneck, pytest.approx(near.commits_seconds))
    assert computing / 8 + 100 * 7.0 == pytest.approx(far.commits_seconds)


def test_a_backlog_is_bound_by_the_workers_cores_or_by_the_machine_s():
    alone = scale.drained(MADE_UP, 10**9, Site(cores=64), executors=1)
    crowded = scale.drained(replace(MADE_UP, broker_cpu_seconds=4e-6), 10**9, Site())

    assert 250_000 == pytest.approx(alone, rel=1e-3)
    assert 250_000 == pytest.approx(crowded, rel=1e-3)


def test_what_a_day_costs_grows_with_its_commits_and_its_cores():
    second, minute = (
        scale.predicted(MADE_UP, Load(), Site(every_seconds=every)).dollars_a_day
        for every in (1.0, 60.0)
    )
    more = scale.predicted(MADE_UP, Load(), Site(cores=3)).dollars_a_day

    assert second > minute
    assert more - second >= 24 * scale.Prices().core_hour


# Constants and the page.


def result(figure, words, **values):
    command = f".venv/bin/python -m benchmarks {figure} {words}"
    return Result(figure, command, 1.0, 0.0, CIRCUMSTANCES, values, {})


def obeying(folder):
    """Keep results of a machine that follows the laws to the letter."""
    commit = lambda files, partitions: 1e3 * (0.03 + 1e-4 * files + 1e-5 * partitions)  # noqa: E731
    rate = {n: scale.drained(MADE_UP, 250_000, Site(), executors=n) for n in (1, 2)}
    drained = scale.drained(MADE_UP, 1_000_000, Site())
    drain = {
        "cpu_seconds_per_million": 4.0,
        "broker_seconds_per_million": 0.0,
        "record_bytes": 300.0,
        "bytes_per_record": 30.0,
        "rows_per_second": drained,
    }
    growth = {
        "commit_bytes": 10_000.0,
        "file_bytes": 500.0,
        "partition_bytes": 100.0,
        "partition_beyond_bytes": 20.0,
        "ranges_partitions": 300.0,
        "ledger_partition_bytes": 20.0,
        "requests": 8.0,
        "puts": 4.0,
    }
    made = [
        result("drain", "--records 5000000 --epoch-records 1000000 --format iceberg", **drain),
        result("epoch", "--epoch-records 20000", prepared_median_ms=140.0, tiny_median_ms=TINY_MS),
        result("fanout", "--tables 100 --format iceberg", table_ms=20.0),
        *(
            result(
                "commit",
                f"--format iceberg --early {early} --level 200 --late 1000 --files {files} --partitions {count}",
                early_ms=commit(files, count),
                level_ms=commit(files, count),
            )
            for early, files, count in ((50, 10, 4), (20, 1000, 4), (20, 10, 2000))
        ),
        *(
            result(
                "far",
                f"--format iceberg --commits 30 --answer-ms {late}",
                near_ms=30.0,
                far_ms=30.0 + 7 * late,
                answers=7.0,
            )
            for late in (200, 50)
        ),
        result("growth", "--format iceberg --commits 20", **growth),
        result(
            "cluster",
            "--records 500000 --epoch-records 250000",
            one_rows_per_second=rate[1],
            two_rows_per_second=rate[2],
        ),
    ]
    for each in made:
        keep(each, folder)


def test_constants_are_what_the_kept_results_say(tmp_path):
    obeying(tmp_path)
    found = constants(tmp_path)

    for name in Constants.__dataclass_fields__:
        assert getattr(MADE_UP, name) == pytest.approx(getattr(found, name)), name


def test_a_constant_that_was_not_measured_is_named_with_its_command(tmp_path):
    obeying(tmp_path)
    (tmp_path / "growth.jsonl").unlink()

    with pytest.raises(FailedError, match="benchmarks growth --format iceberg"):
        constants(tmp_path)


def test_a_machine_that_follows_the_laws_is_predicted_without_an_error(tmp_path):
    obeying(tmp_path)
    made = scale_page.checks(tmp_path, constants(tmp_path))

    assert 4 == len(made)
    assert [] == [each for each in made if abs(each.error_percent) > 1e-6]


def test_a_machine_that_is_slower_than_predicted_is_reported_with_its_error(tmp_path):
    obeying(tmp_path)
    keep(
        result(
            "epoch", "--epoch-records 20000", prepared_median_ms=140.0, tiny_median_ms=2 * TINY_MS
        ),
        tmp_path,
    )
    reported = scale_page.page(tmp_path, constants(tmp_path))

    assert "| 130 ms | 261 ms | -50 % |" in reported


def test_the_page_names_the_first_bottleneck_of_each_size_and_what_helps(tmp_path):
    obeying(tmp_path)
    reported = scale_page.page(tmp_path, constants(tmp_path))

    assert 2 == reported.count("| first bottleneck | ")
    assert "- 1,000 times: *answers*" in reported
    assert all(remedy in reported for remedy in (scale_page.REMEDIES["records"],))


def test_the_picture_stays_within_its_frame(tmp_path):
    obeying(tmp_path)
    drawn = scale_page.picture(constants(tmp_path))
    points = [
        tuple(map(float, pair.split(",")))
        for line in drawn.splitlines()
        if "<polyline" in line
        for pair in line.split('points="')[1].split('"')[0].split()
    ]

    assert 5 == drawn.count("<polyline")
    assert all(0 <= x <= 720 and 0 <= y <= 320 and math.isfinite(y) for x, y in points)
