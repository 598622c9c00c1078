# SPDX-License-Identifier: Apache-2.0
"""Shows figures of tables to Prometheus: call `export()` once, before training.

Needs prometheus_client. Prometheus reads http://host:9200/metrics; each rank has its own port.
"""

from collections.abc import Iterator

from prometheus_client import REGISTRY, start_http_server
from prometheus_client.core import GaugeMetricFamily

import sok_compat as sok


class Tables:
    """A collector of prometheus_client."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yields a metric for each figure, such as sok_table_keys{table="users"}."""
        tables = sok.stats()["tables"]
        for figure in ("keys", "rows", "evicted", "waiting", "bytes"):
            metric = GaugeMetricFamily(
                f"sok_table_{figure}", f"{figure} of a table", labels=["table"]
            )
            for name, figures in tables.items():
                metric.add_metric([name], figures[figure])
            yield metric


def export(port: int = 9200) -> None:
    """Serves the figures of this process's tables from a thread of its own."""
    REGISTRY.register(Tables())
    start_http_server(port)
