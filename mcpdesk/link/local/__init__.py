"""Link to a core in this process."""
