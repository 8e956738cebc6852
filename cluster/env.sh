# shellcheck shell=bash
# Settings of all Ray processes of a cluster. onprem.yaml and slurm/ source this file; the
# Dockerfile sets the same variables for aws-gpu.yaml and k8s/.

# Without it, anyone who can reach the port of `ray start --head` can use the cluster.
export RAY_AUTH_MODE=token
export RAY_USAGE_STATS_ENABLED=0

# Ray ends the newest seed run when memory is short, before the kernel ends an arbitrary process.
export RAY_memory_monitor_refresh_ms=250
export RAY_memory_usage_threshold=0.95

# A drained machine gets no new seed runs, and lets running ones finish for this many seconds.
export RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S=90

# Seconds for a stopped driver to end its seed runs and its MLflow runs; Ray's default is 3.
export RAY_JOB_STOP_WAIT_TIME_S=25

# Seconds for all machines of a Slurm allocation to join; Ray's default of 30 is too short.
export RAY_SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT=300

# The autoscaler keeps trying if a cloud has no machine or a host does not answer.
export AUTOSCALER_MAX_NUM_FAILURES=inf

# Hide GPUs from seed runs that request none; by default, Ray shows them all GPUs.
export RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO=1

# Nothing reads Ray Tune's own files and snapshots: the storage has the results.
export TUNE_DISABLE_AUTO_CALLBACK_LOGGERS=1
export TUNE_GLOBAL_CHECKPOINT_S=300

# Workers load an encoder from the path where the driver found it. A machine without it downloads it
# from the hub.
export HF_HOME="${HF_HOME:-/srv/sclsearch/huggingface}"

# TLS between all Ray processes, on machines that have a certificate of tls.sh.
tls="${RAY_TLS_FOLDER:-${HOME:-}/.ray}"
if [[ -e "$tls/ray.crt" ]]; then
    export RAY_USE_TLS=1 RAY_TLS_CA_CERT="$tls/ca.crt"
    export RAY_TLS_SERVER_CERT="$tls/ray.crt" RAY_TLS_SERVER_KEY="$tls/ray.key"
fi
unset tls
