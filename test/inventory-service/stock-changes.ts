import { PETS } from '../support/exact-lists.ts';

const SWAP_WORDS = `ALTER TYPE pet_status RENAME VALUE 'available' TO 'other';
  ALTER TYPE pet_status RENAME VALUE 'sold' TO 'available'; ALTER TYPE pet_status RENAME VALUE 'other' TO 'sold'`;

/**
 * How somebody may change the stock without the service, and make his changes hard to see. Each statement is a
 * transaction of its own unless it says BEGIN. The last ones undo what the first ones did to the table.
 */
export const CHANGES = {
  'an update in several pieces':
    'UPDATE inventory_item SET quantity = 5 WHERE pet_id IN (1, 749, 750, 1401, 1402, 1500)',
  'an update of every row': 'UPDATE inventory_item SET quantity = quantity + 1',
  'new pets': [
    `INSERT INTO inventory_item VALUES (0, 1, 'sold')`,
    `INSERT INTO inventory_item VALUES (9999, 1, 'sold')`,
  ],
  'pets at both ends': [
    `INSERT INTO inventory_item VALUES (-9223372036854775808, 1, 'sold'), (9223372036854775807, 1, 'sold')`,
    'UPDATE inventory_item SET quantity = 2 WHERE abs(pet_id::numeric) > 9000000000000000000',
  ],
  'pets that go': ['DELETE FROM inventory_item WHERE pet_id = 7', 'DELETE FROM inventory_item WHERE pet_id = 1500'],
  'a pet that gets another id': [
    'UPDATE inventory_item SET pet_id = -5 WHERE pet_id = 5',
    'UPDATE inventory_item SET pet_id = 5 WHERE pet_id = -5',
  ],
  TRUNCATE: ['TRUNCATE inventory_item', `INSERT INTO inventory_item VALUES (1, 1, 'available')`],
  'TRUNCATE and the same pets anew': `BEGIN; TRUNCATE inventory_item;
    INSERT INTO inventory_item SELECT n, n + 1, 'available' FROM generate_series(1, ${PETS}) n; COMMIT`,
  'a transaction prepared, then committed': [
    `BEGIN; UPDATE inventory_item SET quantity = 1001 WHERE pet_id = 2; PREPARE TRANSACTION 'later'`,
    `COMMIT PREPARED 'later'`,
  ],
  'triggers off and on in one transaction': [
    `BEGIN; ALTER TABLE inventory_item DISABLE TRIGGER USER;
    UPDATE inventory_item SET quantity = 8 WHERE pet_id = 8; ALTER TABLE inventory_item ENABLE TRIGGER USER; COMMIT`,
    'UPDATE inventory_item SET quantity = 9 WHERE pet_id = 8',
    `SET session_replication_role = replica; UPDATE inventory_item SET quantity = 10 WHERE pet_id = 8; RESET session_replication_role`,
  ],
  'triggers off and on in three': [
    'ALTER TABLE inventory_item DISABLE TRIGGER USER',
    'UPDATE inventory_item SET quantity = 8 WHERE pet_id = 8',
    'UPDATE inventory_item SET quantity = 9 WHERE pet_id = 8',
    'ALTER TABLE inventory_item ENABLE TRIGGER USER',
    'UPDATE inventory_item SET quantity = 11 WHERE pet_id = 8',
  ],
  session_replication_role: [
    `SET session_replication_role = replica; UPDATE inventory_item SET quantity = 6 WHERE pet_id = 6`,
    'UPDATE inventory_item SET quantity = 7 WHERE pet_id = 6',
    'RESET session_replication_role',
  ],
  'session_replication_role and a savepoint': `BEGIN; SET LOCAL session_replication_role = replica; SAVEPOINT a;
    UPDATE inventory_item SET quantity = 6 WHERE pet_id = 6; ROLLBACK TO a; UPDATE inventory_item SET quantity = 6 WHERE pet_id = 7; COMMIT`,
  'a session that marks its next transaction as recorded although it is not': [
    `BEGIN; SELECT set_config('inventory.recorded_in', pg_current_xact_id()::text, false); COMMIT`,
    `UPDATE inventory_item SET quantity = 3 WHERE pet_id = 3; RESET inventory.recorded_in`,
  ],
  'another stock_change in the search path': [
    `CREATE TEMP TABLE stock_change (LIKE public.stock_change INCLUDING ALL);
    UPDATE inventory_item SET quantity = 3 WHERE pet_id = 3`,
    'DROP TABLE pg_temp.stock_change',
  ],
  'a table rewritten': [
    `ALTER TABLE inventory_item ALTER quantity TYPE integer USING quantity + 1`,
    'VACUUM FULL inventory_item',
    'CLUSTER inventory_item USING inventory_item_pkey',
    'UPDATE inventory_item SET quantity = 1 WHERE pet_id = 1',
  ],
  'columns that swap their names': [
    'ALTER TABLE inventory_item ADD amount integer NOT NULL DEFAULT 9',
    `ALTER TABLE inventory_item RENAME quantity TO old; ALTER TABLE inventory_item RENAME amount TO quantity`,
    `ALTER TABLE inventory_item RENAME quantity TO amount; ALTER TABLE inventory_item RENAME old TO quantity`,
    'ALTER TABLE inventory_item DROP amount',
  ],
  'words for a status that swap, and back': [SWAP_WORDS, SWAP_WORDS],
  'a child table': [
    `CREATE TABLE child () INHERITS (inventory_item); INSERT INTO child VALUES (100000, 1, 'sold')`,
    'UPDATE child SET quantity = 2',
    'UPDATE child SET quantity = 3',
    'DROP TABLE child',
  ],
  'a trigger that keeps history out': [
    `CREATE FUNCTION keep_out() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
    CREATE TRIGGER keep_out BEFORE INSERT ON stock_change FOR EACH ROW EXECUTE FUNCTION keep_out()`,
    'UPDATE inventory_item SET quantity = 777 WHERE pet_id = 1',
    'DROP FUNCTION keep_out CASCADE',
  ],
  'a history whose rows name another transaction': [
    `ALTER TABLE stock_change ALTER changed_in SET DEFAULT '3'`,
    'UPDATE inventory_item SET quantity = 778 WHERE pet_id = 1',
    'UPDATE inventory_item SET quantity = 779 WHERE pet_id = 1',
    'ALTER TABLE stock_change ALTER changed_in SET DEFAULT pg_current_xact_id()',
  ],
  'a trigger that writes another pet': [
    `CREATE FUNCTION follow() RETURNS trigger LANGUAGE plpgsql AS
      'BEGIN UPDATE inventory_item SET quantity = NEW.quantity WHERE pet_id = 1450; RETURN NULL; END';
    CREATE TRIGGER follow AFTER UPDATE ON inventory_item FOR EACH ROW WHEN (NEW.pet_id = 1) EXECUTE FUNCTION follow()`,
    'DROP FUNCTION follow CASCADE',
  ],
  'another table by the name': [
    `BEGIN; ALTER TABLE inventory_item RENAME TO kept_aside;
    CREATE TABLE inventory_item (LIKE kept_aside INCLUDING ALL); INSERT INTO inventory_item VALUES (1, 1, 'sold'); COMMIT`,
    'UPDATE inventory_item SET quantity = 2',
    'UPDATE inventory_item SET quantity = 3',
    'BEGIN; DROP TABLE inventory_item; ALTER TABLE kept_aside RENAME TO inventory_item; COMMIT',
  ],
  'a history pruned': [
    'UPDATE inventory_item SET quantity = 3 WHERE pet_id = 1',
    `BEGIN; UPDATE inventory_item SET quantity = 4 WHERE pet_id = 1;
    SET LOCAL inventory.history = 'prune'; DELETE FROM stock_change c WHERE EXISTS (
      SELECT FROM stock_change newer WHERE newer.pet_id = c.pet_id AND newer.id > c.id); COMMIT`,
  ],
};
