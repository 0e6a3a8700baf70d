"""/os-instance_usage_audit_log: the answers of a cloud where no host runs audits."""
import datetime

import pytest

from nova_lite.api.compute.instance_usage_audit_log import last_month
from tests.unit.api.compute.conftest import assert_like_sample

PATH = "/os-instance_usage_audit_log"


def test_index(cloud, admin):
    assert admin.get(PATH)["instance_usage_audit_logs"]["overall_status"] == "ALL hosts done. 0 errors."
    cloud.add_service("host1")
    cloud.add_service("host2", disabled=True)
    cloud.add_service("control", "nova-conductor")
    answer = admin.get(PATH)
    assert_like_sample(answer, "os-instance-usage-audit-log/inst-usage-audit-log-index-get-resp", "2.1")
    log = answer["instance_usage_audit_logs"]
    assert (log["hosts_not_run"], log["num_hosts"], log["num_hosts_not_run"]) == (["host1", "host2"], 2, 2)
    assert (log["overall_status"], log["log"]) == ("0 of 2 hosts done. 0 errors.", {})


def test_show(admin):
    answer = admin.get(f"{PATH}/2012-07-05%2010:00:00")
    assert_like_sample(answer, "os-instance-usage-audit-log/inst-usage-audit-log-show-get-resp", "2.1")
    log = answer["instance_usage_audit_log"]
    assert (log["period_beginning"], log["period_ending"]) == ("2012-06-01 00:00:00", "2012-07-01 00:00:00")
    admin.get(f"{PATH}/2012-07-05%2010:00:00.123456")
    for time in ("2012-07-05T10:00:00", "x", "0001-01-05%2010:00:00"):
        assert admin.fault("GET", f"{PATH}/{time}", 400).startswith("Invalid timestamp for date")


def test_admins_only(member):
    member.get(PATH, 403)
    member.get(f"{PATH}/2012-07-05%2010:00:00", 403)


@pytest.mark.parametrize(("before", "begin", "end"), [
    ((2012, 7, 5), (2012, 6, 1), (2012, 7, 1)), ((2012, 7, 1), (2012, 5, 1), (2012, 6, 1)),
    ((2012, 2, 29), (2012, 1, 1), (2012, 2, 1)), ((2012, 1, 2), (2011, 12, 1), (2012, 1, 1)),
    ((2012, 1, 1), (2011, 11, 1), (2011, 12, 1)), ((2012, 7, 1, 0, 0, 1), (2012, 6, 1), (2012, 7, 1))])
def test_months(before, begin, end):
    assert last_month(datetime.datetime(*before)) == (datetime.datetime(*begin), datetime.datetime(*end))
