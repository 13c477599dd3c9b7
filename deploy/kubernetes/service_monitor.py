"""Checks each ServiceMonitor among rendered manifests against the definition in a downloaded Go module of its operator."""

import json
import pathlib
import sys

import jsonschema
import yaml


def strict(schema):
    """The cluster drops unknown members in silence; here they are errors."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: strict(part) for name, part in schema.items()}
    if isinstance(schema.get("properties"), dict) and "additionalProperties" not in schema:
        closed["additionalProperties"] = False
    return closed


module, rendered = (pathlib.Path(argument) for argument in sys.argv[1:])
crd = pathlib.Path(json.loads(module.read_text())["Dir"]) / "example/prometheus-operator-crd"
definition = yaml.safe_load((crd / "monitoring.coreos.com_servicemonitors.yaml").read_text())
specification = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]

for manifest in yaml.safe_load_all(rendered.read_text()):
    if manifest["kind"] == "ServiceMonitor":
        jsonschema.validate(manifest["spec"], strict(specification))
        print(f"INFO passed for resource servicemonitor/{manifest['metadata']['name']}")
