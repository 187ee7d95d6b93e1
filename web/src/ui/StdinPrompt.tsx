// The cell asks for a line of text.
import { useEffect, useRef } from 'preact/hooks';

interface Props {
  prompt: string;
  password: boolean;
  answer: (value: string) => void;
}

export function StdinPrompt({ prompt, password, answer }: Props) {
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.focus(), []);
  const submit = (e: Event): void => {
    e.preventDefault();
    answer(input.current?.value ?? '');
  };
  return (
    <form class="stdin" onSubmit={submit}>
      <label>
        <span>{prompt || 'Input:'}</span>
        <input ref={input} type={password ? 'password' : 'text'} autocomplete="off" spellcheck={false} />
      </label>
      <button class="button primary" type="submit">Send</button>
    </form>
  );
}
