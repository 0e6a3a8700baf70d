"""The state report of a process on SIGUSR2: what its threads do, and with which options it runs (oslo.reports)."""
from __future__ import annotations

import sys

from oslo_config import cfg
from oslo_log import log

LOG = log.getLogger(__name__)


def write(conf: cfg.ConfigOpts, name: str) -> None:
    """Write the report to a file of ``[oslo_reports] log_dir``, else to the end of the log file, else to stderr."""
    # loaded for a report only: the libraries take 4 MiB
    from oslo_reports import guru_meditation_report, opts
    from oslo_reports.generators.conf import ConfigReportGenerator

    class Report(guru_meditation_report.TextGuruMeditation):
        # the library's own section shows the global options of oslo.config, of which we have none
        persistent_sections = [("Options of this process", ConfigReportGenerator(conf))]

    for group, options in opts.list_opts():
        conf.register_opts(options, group=group)
    report = Report
    directory = conf.oslo_reports.log_dir
    if directory:
        report.handle_signal(_Version(), name, directory, None)
        return
    text = report(_Version(), None).run()
    path = _log_file(conf)
    if path is None:
        print(text, file=sys.stderr, flush=True)
        return
    with open(path, "a") as stream:
        stream.write(text + "\n")


def _log_file(conf: cfg.ConfigOpts) -> str | None:
    import logging

    for handler in logging.getLogger().handlers:
        path = getattr(handler, "baseFilename", None)
        if path:
            return str(path)
    return None


class _Version:
    """The version of the program for oslo.reports."""

    def vendor_string(self) -> str:
        return "nova_lite"

    product_string = vendor_string

    def version_string_with_package(self) -> str:
        from nova_lite import version

        return version.VERSION
