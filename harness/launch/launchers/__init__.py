"""What starts the ranks of a job, one file a launcher; `registry` knows them all."""
