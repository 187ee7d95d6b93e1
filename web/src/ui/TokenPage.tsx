// Asks for the token, and says where it is.
import { useEffect, useRef } from 'preact/hooks';
import { app } from '../model/app';

export function TokenPage({ why }: { why: 'missing' | 'wrong' }) {
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.focus(), []);
  const submit = (e: Event): void => {
    e.preventDefault();
    const value = input.current?.value.trim() ?? '';
    const pasted = /[?&]token=([^&#\s]+)/.exec(value)?.[1];
    if (value) void app.useToken(new URLSearchParams(`t=${pasted ?? encodeURIComponent(value)}`).get('t') ?? '');
  };
  return (
    <main class="token-page">
      <form class="token-card" onSubmit={submit}>
        <img src="favicon.svg" alt="" width="44" height="44" />
        <h1>Welcome to cellkeep</h1>
        <p>{why === 'wrong' ? 'This token is not the right one, or it was revoked.' : 'This gateway asks for its token before it lets anyone in.'}</p>
        <label>
          <span>Token, or the whole address from the terminal</span>
          <input ref={input} type="password" name="token" autocomplete="current-password" spellcheck={false} aria-invalid={why === 'wrong'} required />
        </label>
        <button class="button primary" type="submit">Open</button>
        <p class="hint">
          The gateway printed it when it started: <code>cellkeep ready: …?token=…</code>. It is kept in this tab only.
        </p>
      </form>
    </main>
  );
}
