"""Programs around the library: the command line, the service, labs, tuning, reports, benchmarks, clusters."""
