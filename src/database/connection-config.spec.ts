import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { SESSION_SETTINGS, connectionConfig, schemaOf } from './connection-config.js';

const bounds = { statement_timeout: 1_500 };

describe('connectionConfig', () => {
  it('keeps what the URL asks for, and has the last word where both ask', () => {
    const url =
      'postgresql://me:p%40ss@db:5433/stock?sslmode=require&options=-c%20work_mem%3D8MB&statement_timeout=1&application_name=x';
    const options = /^-c work_mem=8MB -c default_transaction_isolation=read\\ committed /;
    expect(connectionConfig(url, 'list', bounds)).toMatchObject({
      connectionString: 'postgresql://me:p%40ss@db:5433/stock',
      ssl: { rejectUnauthorized: false },
      options: expect.stringMatching(options) as string,
      statement_timeout: 1_500,
      application_name: 'inventory list',
    });
  });

  it('looks for the tables where the URL says, or in public', () => {
    expect(connectionConfig('postgresql://db/stock', 'list', bounds).options).toContain('-c search_path="public"');
    const url = 'postgresql://db/stock?schema=pet%20store';
    expect(schemaOf(url)).toBe('pet store');
    expect(connectionConfig(url, 'list', bounds).options).toContain('-c search_path="pet\\ store"');
  });
});

describe('pooled-role.sql', () => {
  it('gives the sessions of a pooler the same settings', () => {
    const sql = readFileSync(new URL('../../deploy/scale/pooled-role.sql', import.meta.url), 'utf8');
    for (const [name, value] of Object.entries(SESSION_SETTINGS)) {
      expect(sql).toContain(`ALTER ROLE inventory_pooled SET ${name} = '${value}';`);
    }
  });
});
