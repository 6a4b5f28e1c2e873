"""Checks manifests: those of Kubernetes itself by its schema (kubernetes-validate), an MPIJob by the table of its fields here,
since that tool knows no MPIJob and lets it pass."""

import sys

import kubernetes_validate
import yaml

# Fields of kubeflow.org/v2beta1 that a manifest may have. A type is checked by isinstance; `pod` is a template of Kubernetes.
REPLICA = {"replicas": int, "restartPolicy": str, "template": "pod"}
POLICY = {
    "cleanPodPolicy": str,
    "ttlSecondsAfterFinished": int,
    "activeDeadlineSeconds": int,
    "backoffLimit": int,
    "suspend": bool,
}
MPIJOB = {
    "apiVersion": str,
    "kind": str,
    "metadata": {"name": str, "namespace": str, "labels": dict, "annotations": dict},
    "spec": {
        "slotsPerWorker": int,
        "mpiImplementation": str,
        "runLauncherAsWorker": bool,
        "sshAuthMountPath": str,
        "launcherCreationPolicy": str,
        "runPolicy": POLICY,
        "mpiReplicaSpecs": {"Launcher": REPLICA, "Worker": REPLICA},
    },
}


def mistakes(value, wanted, place=""):
    if wanted == "pod":
        pod = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "x"}, "template": value}
        return schema(pod, place)
    if isinstance(wanted, dict):
        if not isinstance(value, dict):
            return [f"{place} is no mapping"]
        unknown = [f"{place}.{name} is no field" for name in value if name not in wanted]
        known = (mistakes(value[name], wanted[name], f"{place}.{name}") for name in value if name in wanted)
        return unknown + [mistake for found in known for mistake in found]
    fits = isinstance(value, wanted) and not (wanted is int and isinstance(value, bool))
    return [] if fits else [f"{place} is {value!r}, expected {wanted.__name__}"]


def schema(document, place=""):
    try:
        kubernetes_validate.validate(document, sys.argv[1], strict=True)
    except kubernetes_validate.ValidationError as error:
        return [f"{place} {'.'.join(map(str, error.path))}: {error.message}"]
    return []


def check(document):
    if document.get("kind") == "MPIJob":
        return mistakes(document, MPIJOB, "MPIJob")
    return schema(document, document.get("kind", "?"))


def main():
    failed = 0
    for file in sys.argv[2:]:
        for document in yaml.safe_load_all(open(file)):
            found = check(document)
            failed += bool(found)
            print(f"{file}: {document['kind']}: {'; '.join(found) or 'passed'}")
            # The check itself must fail where it should.
            if document["kind"] == "Job":
                document["spec"]["complet1ons"] = 3
            else:
                document["spec"]["slots"] = 3
            if not check(document):
                failed += 1
                print(f"{file}: {document['kind']}: a field that does not exist passes")
    sys.exit(failed > 0)


main()
