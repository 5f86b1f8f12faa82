"""The SDK: client, worker, workflow contexts and value conversion."""
