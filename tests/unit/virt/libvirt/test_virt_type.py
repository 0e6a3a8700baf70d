"""KVM or not: what libvirt offers, what the device says, what the CPU can do."""
import pytest

from nova_lite import exception
from nova_lite.virt.libvirt import virt_type


def _capabilities(*types, arch="x86_64"):
    domains = "".join(f"<domain type='{t}'/>" for t in types)
    return f"<capabilities><guest><os_type>hvm</os_type><arch name='{arch}'>{domains}</arch></guest></capabilities>"


BOTH = _capabilities("qemu", "kvm")


@pytest.fixture
def machine(tmp_path):
    def make(flags="fpu svm sse", device=True):
        cpuinfo, kvm = tmp_path / "cpuinfo", tmp_path / ("kvm" if device else "absent")
        cpuinfo.write_text(f"processor\t: 0\nvmx flags\t: vnmi\nflags\t\t: {flags}\nbugs\t\t:\n")
        if device:
            kvm.touch()
        return {"cpuinfo": cpuinfo, "device": str(kvm)}
    return make


def test_kvm_when_all_three_agree(machine):
    assert virt_type.choose("auto", "x86_64", BOTH, **machine("fpu vmx")) == "kvm"
    assert virt_type.choose("auto", "x86_64", BOTH, **machine("fpu svm")) == "kvm"


def test_an_offer_of_libvirt_is_not_enough(machine):
    assert virt_type.choose("auto", "x86_64", BOTH, **machine("fpu svmx sse")) == "qemu"


def test_without_device_or_offer_it_is_qemu(machine):
    assert virt_type.choose("auto", "x86_64", BOTH, **machine(device=False)) == "qemu"
    assert virt_type.choose("auto", "x86_64", _capabilities("qemu"), **machine()) == "qemu"


def test_other_architectures_have_no_such_flags(machine):
    assert virt_type.choose("auto", "aarch64", _capabilities("qemu", "kvm", arch="aarch64"), **machine("asimd")) == "kvm"


def test_what_is_asked_for_is_obeyed_or_refused(machine):
    assert virt_type.choose("qemu", "x86_64", BOTH, **machine()) == "qemu"
    assert virt_type.choose("kvm", "x86_64", BOTH, **machine(device=False)) == "kvm"
    with pytest.raises(exception.ConfigError, match="offers only qemu for x86_64"):
        virt_type.choose("kvm", "x86_64", _capabilities("qemu"), **machine())
    with pytest.raises(exception.ConfigError, match="no hypervisor"):
        virt_type.choose("auto", "x86_64", _capabilities("kvm"), **machine(device=False))
