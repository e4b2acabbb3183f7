//! Workloads, rivals and reports.
