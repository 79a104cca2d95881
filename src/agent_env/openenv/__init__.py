"""The task server: the wire protocol of OpenEnv, with what training needs."""
