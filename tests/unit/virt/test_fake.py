"""The fake hypervisor keeps guests as a real one does, and fails when it is told to."""
import pytest

from nova_lite import conf as nova_conf
from nova_lite import exception
from nova_lite.objects import states
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.instance import Instance
from nova_lite.virt import driver as virt_driver
from nova_lite.virt.driver import GuestFiles


def make(host="h1", **options):
    conf = nova_conf.load([], config_files=[], compute__driver="fake", **options)
    driver = virt_driver.load(conf, host)
    driver.init_host(lambda _uuid, _state: None)
    return driver


def server(uuid="u1"):
    return Instance(uuid=uuid, project_id="p", user_id="u", display_name="web", hostname="web",
                    flavor=Flavor(flavorid="1", name="small", vcpus=1, memory_mb=64, root_gb=1))


def spawn(driver, *uuids):
    for uuid in uuids:
        driver.spawn(server(uuid), [], GuestFiles(), lambda _image, _path: None)


def test_a_guest_goes_through_its_power_states():
    driver, one = make(), server()
    assert driver.power_state(one) is None
    spawn(driver, "u1")
    seen = [driver.power_state(one)]
    for change in (lambda: driver.pause(one), lambda: driver.unpause(one), lambda: driver.power_off(one, 0),
                   lambda: driver.power_on(one, []), lambda: driver.suspend(one), lambda: driver.resume(one, []),
                   lambda: driver.reboot(one, [], True, 0)):
        change()
        seen.append(driver.power_state(one))
    assert seen == [states.RUNNING, states.POWER_PAUSED, states.RUNNING, states.SHUTDOWN, states.RUNNING, states.SHUTDOWN,
                    states.RUNNING, states.RUNNING]
    driver.destroy(one, [])
    driver.destroy(one, [])
    assert driver.power_states() == {}


def test_guests_in_a_file_outlive_the_process_and_each_host_has_its_own(tmp_path):
    options = {"fake__state_file": str(tmp_path / "guests")}
    spawn(make("h1", **options), "u1", "u2")
    spawn(make("h2", **options), "u3")
    assert set(make("h1", **options).power_states()) == {"u1", "u2"}
    assert set(make("h2", **options).power_states()) == {"u3"}


@pytest.mark.parametrize(("rule", "host", "fails"), [
    ("spawn", "h1", True), ("spawn@h1", "h1", True), ("spawn@h2", "h1", False), ("spawn@h1:0", "h1", False),
    ("power_off", "h1", False)])
def test_rules_say_what_fails_where(rule, host, fails):
    driver = make(host, fake__fail=[rule])
    if fails:
        with pytest.raises(exception.BuildFailed, match="fake"):
            spawn(driver, "u1")
        assert driver.power_states() == {}
    else:
        spawn(driver, "u1")
        assert set(driver.power_states()) == {"u1"}


def test_an_operation_on_a_guest_that_is_not_there_fails_by_name():
    with pytest.raises(exception.VirtDriverError, match="power_on failed: .*u9"):
        make().power_on(server("u9"), [])


def test_the_console_names_the_guest_and_is_cut_to_length():
    driver = make()
    assert driver.console_output(server(), 2) == ""         # no guest, no log
    spawn(driver, "u1")
    assert driver.console_output(server(), 2).splitlines()[-1] == "web login:"
    assert len(driver.console_output(server(), 2).split("\n")) == 2      # clients count like that
    assert len(driver.console_output(server(), None).splitlines()) > 2
