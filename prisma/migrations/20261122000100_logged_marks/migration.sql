-- A prepared transaction outlives a crash, and so must the mark that it has left.
ALTER TABLE "unrecorded_change" SET LOGGED;

-- A publication of all tables, which this one is in now, would otherwise refuse to delete the old marks.
ALTER TABLE "unrecorded_change" REPLICA IDENTITY FULL;
