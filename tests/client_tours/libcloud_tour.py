"""What apache-libcloud does with a cloud: run in its virtual environment, with OS_AUTH_URL and so on set.

    python libcloud_tour.py NAME
"""
import os
import sys
import time

from libcloud.compute.providers import get_driver
from libcloud.compute.types import NodeState, Provider


def main(name):
    driver = get_driver(Provider.OPENSTACK)(
        os.environ["OS_USERNAME"], os.environ["OS_PASSWORD"], ex_force_auth_url=os.environ["OS_AUTH_URL"].removesuffix("/v3"),
        ex_force_auth_version="3.x_password", ex_tenant_name=os.environ["OS_PROJECT_NAME"], ex_domain_name="Default",
        ex_force_service_region="RegionOne", api_version="2.2")
    size = next(s for s in driver.list_sizes() if s.name == "m1.nano")
    larger = next(s for s in driver.list_sizes() if s.name == "m1.tiny")
    image = next(i for i in driver.list_images() if i.name == "tiny")
    network = next(n for n in driver.ex_list_networks() if n.name == "private")
    key = driver.create_key_pair(name)
    assert "PRIVATE KEY" in key.private_key
    assert name in [k.name for k in driver.list_key_pairs()]
    made = driver.create_node(name=name, size=size, image=image, networks=[network], ex_keyname=name, ex_metadata={"a": "1"},
                              ex_userdata="#!/bin/sh\n")
    [(node, addresses)] = driver.wait_until_running([made], timeout=600, ssh_interface="private_ips")
    assert addresses, node
    assert driver.ex_get_metadata(node) == {"a": "1"}
    driver.ex_set_metadata(node, {"b": "2"})
    assert driver.ex_get_node_details(node.id).name == name
    assert driver.list_locations()
    driver.reboot_node(node)
    until(driver, node, NodeState.RUNNING)
    driver.ex_stop_node(node)
    until(driver, node, NodeState.STOPPED)
    driver.ex_start_node(node)
    until(driver, node, NodeState.RUNNING)
    driver.ex_pause_node(node)
    wait(lambda: driver.ex_get_node_details(node.id).extra["vm_state"] == "paused")     # it has no such state
    driver.ex_unpause_node(node)
    until(driver, node, NodeState.RUNNING)
    assert driver.ex_resize(node, larger)
    wait(lambda: driver.ex_get_node_details(node.id).extra["vm_state"] == "resized")
    driver.ex_confirm_resize(node)
    until(driver, node, NodeState.RUNNING)
    volume = driver.create_volume(1, name)
    wait(lambda: driver.ex_get_volume(volume.id).state == "available")
    assert driver.attach_volume(node, volume)
    wait(lambda: driver.ex_get_volume(volume.id).state == "inuse")
    assert driver.detach_volume(driver.ex_get_volume(volume.id))
    wait(lambda: driver.ex_get_volume(volume.id).state == "available")
    driver.destroy_volume(volume)
    assert driver.destroy_node(node)
    wait(lambda: name not in [n.name for n in driver.list_nodes()])
    driver.delete_key_pair(key)


def until(driver, node, state):
    def done():
        found = driver.ex_get_node_details(node.id)
        return found.state == state and not found.extra["task_state"]
    wait(done)


def wait(done):
    deadline = time.monotonic() + 300
    while not done():
        assert time.monotonic() < deadline
        time.sleep(1)


if __name__ == "__main__":
    main(sys.argv[1])
