#!/usr/bin/env python3
"""A code interpreter for a model API: the definition of the tool, and the loop around the model.

    CELLKEEP_URL=http://127.0.0.1:8888 CELLKEEP_TOKEN=... python3 docs/examples/model_loop.py

The messages have the form of chat completions. `ask_model` stands for the call of your model's API: here
it reads from a transcript, so that the example runs without one. Everything else is what you need.
"""
import json
import os

from client import Session

TOOL = {
    "type": "function",
    "function": {
        "name": "run_python",
        "description": "Runs Python code in a session that stays: variables, imports and files of earlier calls are "
                       "there. pandas, numpy and matplotlib are installed; there is no network. Returns what the code "
                       "prints, its last value, its pictures, and the names of the files that it made.",
        "parameters": {
            "type": "object",
            "properties": {"code": {"type": "string", "description": "Python code"}},
            "required": ["code"],
            "additionalProperties": False,
        },
    },
}

# Plain text of bounded length, and pictures no larger than models look at.
OUTPUT = {"strip_ansi": True, "max_text_bytes": 20000, "max_image_edge": 1568}


def run_python(session, code):
    """The content of a tool's answer: text first, then pictures."""
    cell = session.run(code, timeout_s=120, output=OUTPUT)
    lines = [cell["stdout"], cell["stderr"]]
    pictures = []
    for data in [d["data"] for d in cell["displays"]] + [cell["result"] or {}]:
        if "image/png" in data:
            pictures.append(data["image/png"].replace("\n", ""))
        elif "text/plain" in data:
            lines.append(data["text/plain"])
    if cell["error"]:
        lines.extend(cell["error"]["traceback"])
    elif cell["status"] != "ok":
        lines.append("The code ended: %s. %s" % (cell["status"], cell.get("detail", "")))
    lines.extend("file: " + a["path"] for a in cell["artifacts"])
    text = "\n".join(line.rstrip() for line in lines if line.strip()) or "(no output)"
    return [{"type": "text", "text": text},
            *({"type": "image_url", "image_url": {"url": "data:image/png;base64," + p}} for p in pictures)]


TRANSCRIPT = [
    {"calls": ["import pandas as pd\ndf = pd.DataFrame({'x': range(5)})\ndf.sume()"]},
    {"calls": ["df.x.sum()", "import matplotlib.pyplot as plt\nplt.plot(df.x)\nplt.show()\ndf.to_csv('x.csv')"]},
    {"text": "The sum is 10; the line rises by one each step."},
]


def ask_model(messages, tools):
    """An assistant message. With an API: client.chat.completions.create(messages=messages, tools=tools, ...)"""
    turn = TRANSCRIPT[sum(m["role"] == "assistant" for m in messages)]
    calls = [{"id": "call_%d_%d" % (len(messages), i), "type": "function",
              "function": {"name": tools[0]["function"]["name"], "arguments": json.dumps({"code": code})}}
             for i, code in enumerate(turn.get("calls", []))]
    return {"role": "assistant", "content": turn.get("text"), **({"tool_calls": calls} if calls else {})}


def answer(session, question, most_turns=10):
    messages = [{"role": "user", "content": question}]
    for _ in range(most_turns):
        message = ask_model(messages, [TOOL])
        messages.append(message)
        if not message.get("tool_calls"):
            return message["content"]
        for call in message["tool_calls"]:
            content = run_python(session, json.loads(call["function"]["arguments"])["code"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
            print("tool:", [c.get("text", c["type"]).splitlines()[-1] for c in content])
    raise RuntimeError("no answer after %d turns" % most_turns)


if __name__ == "__main__":
    with Session(os.environ.get("CELLKEEP_URL", "http://127.0.0.1:8888"), os.environ["CELLKEEP_TOKEN"]) as session:
        print("answer:", answer(session, "What is the sum of 0 to 4? Draw them, too."))
