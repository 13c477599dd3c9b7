#!/bin/sh
# Checks the manifests, as kustomize renders them, against the schemas of a Kubernetes release (every unknown member is an
# error) and the ServiceMonitor against its operator's. Needs kubectl, python3 with venv, go, and their package registries.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check kubernetes-validate==1.37.0
operator=github.com/prometheus-operator/prometheus-operator@v0.85.0
(cd "$work" && go mod download -json "$operator" >operator.json)

kubectl kustomize . >"$work/rendered.yaml"
"$work/venv/bin/kubernetes-validate" --strict --no-warn "$work/rendered.yaml"
"$work/venv/bin/python" service_monitor.py "$work/operator.json" "$work/rendered.yaml"
