# shellcheck shell=bash
# The settings of every Ray process of a cluster, in one place: onprem.yaml and slurm/ source this
# file; the Dockerfile sets the same for aws-gpu.yaml and k8s/.

# Unset, `ray start --head` without a token lets everyone in who reaches its port.
export RAY_AUTH_MODE=token
export RAY_USAGE_STATS_ENABLED=0

# Ray ends the newest seed run of a full machine before the kernel ends what it likes.
export RAY_memory_monitor_refresh_ms=250
export RAY_memory_usage_threshold=0.95

# A machine that is told to go lets its seed runs end for this long, takes no new ones, then goes.
export RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S=90

# A driver that is told to stop ends its seed runs and MLflow's entries; Ray's default is 3 seconds.
export RAY_JOB_STOP_WAIT_TIME_S=25

# Ray's default of 30 seconds is too short for the machines of an allocation to meet.
export RAY_SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT=300

# A cloud that has no machine today, or a host that is away, is asked again without end.
export AUTOSCALER_MAX_NUM_FAILURES=inf

# GPUs are hidden from seed runs that ask for none; Ray by itself lets them see all.
export RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO=1

# Tune's own files and snapshots are never read: the run store is the truth.
export TUNE_DISABLE_AUTO_CALLBACK_LOGGERS=1
export TUNE_GLOBAL_CHECKPOINT_S=300

# Workers load an encoder from the path at which the driver found it; a machine that has nothing
# there fetches it from the hub.
export HF_HOME="${HF_HOME:-/srv/sclsearch/huggingface}"
