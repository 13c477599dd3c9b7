import * as os from 'node:os';
import { expect, it, vi } from 'vitest';

vi.mock('node:os', async (original) => {
  const real = await original<typeof os>();
  return { ...real, userInfo: vi.fn(real.userInfo) }; // real elsewhere: test files share processes
});

it('names the user, or its number where it has no name, as in a container', async () => {
  vi.resetModules(); // another file may have loaded it with the real names
  const { userName } = await import('./import.ts');
  const { username, ...rest } = { username: 'ann', uid: 1, gid: 1, shell: null, homedir: '/' };
  vi.mocked(os.userInfo).mockReturnValueOnce({ username, ...rest });
  expect(userName()).toBe('ann');
  vi.mocked(os.userInfo).mockImplementationOnce(() => {
    throw new Error('no entry for this uid');
  });
  expect(userName()).toBe(`uid ${process.getuid?.()}`);
});
